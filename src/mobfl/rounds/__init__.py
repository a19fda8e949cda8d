"""Who uploads when: the rules of a round over any traffic. No learning here."""
