"""What crosses between processes, as bytes; readers import it, too: keep it light."""
