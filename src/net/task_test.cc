#include "net/task.h"

#include <gtest/gtest.h>

TEST(Task, Placeholder) { SUCCEED(); }
