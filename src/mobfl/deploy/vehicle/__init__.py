"""The vehicle: its Flower app, and the trainer beside it."""
