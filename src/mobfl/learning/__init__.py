"""Local steps, aggregation, and which samples a vehicle holds. Nothing here knows of roads."""
