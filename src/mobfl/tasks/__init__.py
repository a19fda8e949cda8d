"""What is learnt on the road: a task brings model, data, loss and KPI."""
