/* criterion-quiet.h - included before every test program: the variables that Criterion's macros
 * define have no declaration before them, of which clang would warn at each test. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wmissing-variable-declarations"
#endif
