"""A bookie as a system of pykka actors around the pure rules."""
