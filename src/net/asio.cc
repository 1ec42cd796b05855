// Asio's bodies, compiled once for every process (BOOST_ASIO_SEPARATE_COMPILATION).
#pragma clang diagnostic ignored "-Weverything"
#include <boost/asio/impl/src.hpp>
