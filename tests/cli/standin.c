// Replaces the interposer's two libraries in tests that run only the launcher (`virgate run`).
__attribute__((visibility("default"))) const int virgate_test_standin = 1;
