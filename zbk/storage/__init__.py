"""What a bookie keeps on disk: journal, entry logs, index files, checkpoint."""
