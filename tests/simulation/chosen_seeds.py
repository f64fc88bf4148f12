"""Seeds that cost little and reach much: ``python -m tests.simulation.choose`` prints them.

A change of a rule can change what a seed does. Then no promise is weaker: a known seed that no
longer shows its defect costs the search for another one, and covering seeds that miss a dangerous
place fail ``test_seeds_chosen``.
"""

from typing import Final

KNOWN_SEEDS: Final = {
    "M5": 29, "M6": 6, "M7": 4, "M8": 29, "M10": 1, "M12": 20, "M14": 4, "M15": 22, "M16": 6,
    "M19": 7, "M21": 0, "M22": 565, "M25": 5, "M32": 8, "M35": 49, "L2": 20, "L5": 33, "L6": 34,
    "L7": 384, "V2": 5, "V3": 6, "V5": 31, "V6": 51002052, "V7": 83214971, "J1": 109, "C1": 17,
    "C3": 46, "C4": 8, "C5": 43, "R1": 31, "R2": 12, "R5": 31, "R6": 12, "R7": 12, "R8": 8,
    "R10": 12, "W1": 88, "W2": 59, "W3": 61, "D1": 51, "D2": 8, "S1": 11, "N1": 508, "N2": 57,
    "N3": 38, "N4": 339, "N5": 146, "X3": 1, "X4": 4, "X7": 1, "X9": 2305, "T1": 10, "T2": 2,
    "T4": 57, "T5": 282, "P1": 6, "P2": 6, "P3": 6, "X8": 3,
}  # fmt: skip
"""By defect: a seed that shows it. The search for the defect begins there."""

COVERING_SEEDS: Final = (
    0, 3, 9, 11, 12, 13, 15, 16, 18, 27, 31, 33, 54, 65, 70, 89, 90, 96, 97, 98, 101, 115, 117,
    118, 120, 121, 123, 124, 129, 135, 140, 148, 152, 154, 155, 158, 166, 168, 171, 172, 179,
    185, 186, 190, 192, 193, 208, 212, 213, 214, 218, 223, 229, 242, 246, 248, 253, 259, 263,
    273, 278, 282, 286, 287, 291, 295, 297, 312, 314, 316, 327, 333, 339, 340, 342, 347, 356,
    358, 367, 375, 379, 380, 382, 384, 387, 388, 391, 395, 398, 402, 412, 429, 431, 442, 443,
    445, 447, 449, 452, 456, 461, 464,
)  # fmt: skip
"""Together they reach each dangerous place in several runs."""
