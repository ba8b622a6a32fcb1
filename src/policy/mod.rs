//! Policies: one `Problem` in, one `Plan` out, checked by `verify` before anybody acts on it.
