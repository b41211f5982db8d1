// Stands in for the interposer's two libraries where a test is about the launcher only.
__attribute__((visibility("default"))) const int virgate_test_standin = 1;
