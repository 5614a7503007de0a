//! Rules that need other objects, as pure functions over a synchronous look-up.
