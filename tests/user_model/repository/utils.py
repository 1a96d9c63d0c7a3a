def widths() -> list[int]:
    return [32] * 4
