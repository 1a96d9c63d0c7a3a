"""What this machine has and lacks, and how wrong its instruments are."""
