"""Pictures, a module for each kind; `drawing.style` decides how all of them look."""
