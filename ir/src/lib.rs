//! Number formats, tensor types, Graph IR, Tile IR and the artifact that crosses to the runtime.
