"""Seeds that cost little and reach much: ``python -m tests.simulation.choose`` prints them.

A change of a rule can change what a seed does. Then no promise is weaker: a known seed that no
longer shows its defect costs the search for another one, and covering seeds that miss a dangerous
place fail ``test_seeds_chosen``.
"""

from typing import Final

KNOWN_SEEDS: Final = {
    "M5": 33, "M6": 6, "M7": 10, "M8": 31, "M10": 0, "M12": 20, "M14": 20, "M15": 7, "M16": 6,
    "M19": 1, "M21": 15, "M22": 565, "M25": 6, "M32": 2, "M35": 58, "L2": 20, "L5": 33, "L6": 103,
    "L7": 806, "V2": 51, "V3": 27, "V5": 196, "V7": 191, "V8": 74, "V9": 27, "V10": 203, "V11": 31,
    "V12": 1, "V13": 31, "J1": 195, "C1": 3, "C3": 46, "C4": 10, "C5": 10, "R1": 51, "R2": 21,
    "R5": 12, "R6": 20, "R7": 31, "R8": 8, "R10": 31, "W1": 140, "W2": 88, "W3": 61, "D1": 0,
    "D2": 8, "S1": 15, "N1": 0, "N2": 35, "N3": 38, "N4": 339, "N5": 146, "X3": 1, "X4": 1, "X7": 1,
    "X9": 2305, "T1": 10, "T2": 3, "T4": 57, "T5": 282, "P1": 6, "P2": 6, "P3": 6, "X8": 6,
    "M34": 1, "M17": 1, "M14b": 1, "M9": 0, "M4": 0, "Y3": 1, "A1": 4, "A2": 4, "A3": 26, "A4": 69,
    "A5": 257, "A6": 4, "A7": 22, "V15": 165, "V16": 34, "V17": 203, "V19": 25, "V20": 51, "Y1": 55,
    "Y2": 0, "Y6": 43, "V1": 0, "V4": 23, "V14": 0, "R9": 31, "Y4": 0, "Y5": 0, "Y7": 1, "X1": 0,
}  # fmt: skip
"""By defect: a seed that shows it. The search for the defect begins there."""

COVERING_SEEDS: Final = (
    0, 9, 11, 13, 18, 27, 65, 69, 72, 75, 82, 89, 90, 101, 105, 115, 117, 118, 119, 122, 123,
    124, 126, 129, 135, 139, 140, 150, 151, 154, 155, 166, 168, 171, 186, 192, 196, 207, 208,
    212, 213, 214, 218, 220, 222, 223, 237, 238, 246, 253, 257, 259, 275, 278, 288, 293, 297,
    310, 312, 314, 322, 323, 327, 334, 339, 342, 354, 358, 367, 375, 378, 382, 387, 388, 398,
    402, 404, 412, 418, 425, 429, 431, 442, 443, 445, 452, 454, 469, 472, 484, 485, 490, 494,
    497, 500, 501, 502, 505, 507, 511, 515, 516, 519,
)  # fmt: skip
"""Together they reach each dangerous place in several runs."""
