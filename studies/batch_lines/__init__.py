"""How well a line through peaks at smaller batches predicts the largest batch's."""
