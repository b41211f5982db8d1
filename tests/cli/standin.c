// Stands in for the two libraries of the interposer in tests of the launcher alone.
__attribute__((visibility("default"))) const int virgate_test_standin = 1;
