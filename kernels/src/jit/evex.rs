//! EVEX encoder.
