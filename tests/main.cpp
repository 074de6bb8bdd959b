// The Boost.Test main program every test executable links.
#define BOOST_TEST_MODULE cirrus
#include <boost/test/unit_test.hpp>
