//! Policy documents: loaded, compiled and evaluated to findings.
