//! The controllers: observe, decide, build, apply, status.
