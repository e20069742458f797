// A shared library that has nothing to do with policies.
extern "C" int something_else() { return 1; }
