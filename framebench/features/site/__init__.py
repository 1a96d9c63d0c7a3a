"""Everything that the records say as one folder of static pages: no network, no server, readable without JavaScript."""
