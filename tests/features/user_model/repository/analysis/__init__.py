SCORE = "mean squared error"
