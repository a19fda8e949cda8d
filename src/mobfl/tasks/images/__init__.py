"""Tell what a picture shows: a small CNN on CIFAR-10 or on generated pictures."""
