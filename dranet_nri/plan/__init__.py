"""What must happen, as data: operations and the planner of wanted against observed."""
