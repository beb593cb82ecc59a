"""What figures share: style, panels, labels, the page and the roster of rows. May import `cilab.core`."""
