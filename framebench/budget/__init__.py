"""Which strategy, batch or device fits a budget: advice, the largest batch, predictions."""
