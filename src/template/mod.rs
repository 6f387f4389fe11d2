//! (module template)
