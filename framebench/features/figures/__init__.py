"""What a machine's rows say, drawn: curves over batches, the parts of a peak, first steps, heat maps."""
