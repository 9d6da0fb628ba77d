//! Fusion passes over Graph IR and the targets that emit code from Tile IR.
