"""Cases that several processes share: measured, predicted, and advised on."""
