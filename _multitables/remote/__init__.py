"""Objects of stores: their names, the way to them, and failures. Readers import it, too."""
