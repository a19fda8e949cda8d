"""One run: the loop in which traffic meets learning, its folder, its history."""
