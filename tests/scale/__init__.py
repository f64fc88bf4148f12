"""How much one bookie bears: many ledgers, long ledgers, much journal."""
