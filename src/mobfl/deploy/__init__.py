"""The same rounds on real Flower nodes that come and go."""
