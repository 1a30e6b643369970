"""Files by their names, here and in stores: which are meant, what identifies them, their bytes."""
