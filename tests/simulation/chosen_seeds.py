"""Seeds that cost little and reach much: ``python -m tests.simulation.choose`` prints them.

A change of a rule can change what a seed does. Then no promise is weaker: a known seed that no
longer shows its defect costs the search for another one, and covering seeds that miss a dangerous
place fail ``test_seeds_chosen``.
"""

from typing import Final

KNOWN_SEEDS: Final = {
    "M5": 116, "M6": 6, "M7": 10, "M8": 0, "M10": 0, "M12": 20, "M14": 41, "M15": 7, "M16": 6,
    "M19": 1, "M21": 15, "M22": 565, "M25": 6, "M32": 2, "M35": 58, "L2": 8, "L5": 33, "L6": 103,
    "L7": 806, "V2": 51, "V3": 27, "V5": 196, "V7": 191, "V8": 35, "V9": 27, "V10": 203, "V11": 34,
    "V12": 1, "V13": 0, "J1": 256, "C1": 3, "C3": 46, "C4": 14, "C5": 10, "R1": 34, "R2": 21,
    "R5": 12, "R6": 12, "R7": 32, "R8": 20, "R10": 34, "R11": 98118736, "W1": 35, "W2": 201,
    "W3": 88, "D1": 0, "D2": 8, "D3": 99001603, "S1": 15, "N1": 0, "N2": 35, "N3": 38, "N4": 339,
    "N5": 146, "X3": 1, "X4": 1, "X7": 1, "X9": 2305, "T1": 10, "T2": 2, "T4": 57, "T5": 282,
    "P1": 6, "P2": 6, "P3": 6, "X8": 6, "M34": 1, "M17": 1, "M14b": 1, "M9": 0, "M4": 0, "Y3": 1,
    "A1": 4, "A2": 4, "A3": 26, "A4": 69, "A5": 257, "A6": 4, "A7": 69, "V15": 165, "V16": 34,
    "V17": 203, "V19": 25, "V20": 51, "V21": 100354, "Y1": 55, "Y2": 0, "Y6": 0, "V1": 0, "V4": 23,
    "V14": 0, "R9": 31, "Y4": 0, "Y5": 0, "Y7": 1, "Y8": 100011058, "Y9": 131000036, "X1": 0,
}  # fmt: skip
"""By defect: a seed that shows it. The search for the defect begins there."""

COVERING_SEEDS: Final = (
    3, 11, 18, 27, 36, 39, 53, 57, 62, 64, 70, 74, 90, 92, 93, 103, 105, 106, 113, 119, 120, 121,
    123, 128, 129, 135, 137, 147, 150, 151, 154, 155, 157, 160, 162, 166, 171, 172, 175, 180, 185,
    192, 193, 213, 229, 248, 253, 254, 259, 273, 278, 282, 283, 284, 286, 292, 297, 310, 312, 322,
    325, 326, 327, 334, 339, 345, 354, 356, 360, 375, 380, 384, 394, 398, 412, 414, 416, 417, 431,
    432, 436, 445, 447, 452, 464, 469, 472, 476, 479, 484, 488, 494, 495, 501, 502, 507, 513, 515,
    516, 519,
    95001696,  # a recovery add of a bypass ledger, half of it in a log that is not synced
)  # fmt: skip
"""Together they reach each dangerous place in several runs."""
