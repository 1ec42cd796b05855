// Runs in the guest: how long `bash -l -c true` takes there, N times, one number in ms a line. What any
// command of the SDK costs at least.
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

extern char** environ;

static double now_ms(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

int main(int argc, char** argv) {
  char* words[] = {"bash", "-l", "-c", "true", NULL};
  for (int left = argc > 1 ? atoi(argv[1]) : 1; left > 0; --left) {
    const double begin = now_ms();
    pid_t child;
    int status = 0;
    if (posix_spawn(&child, "/bin/bash", NULL, NULL, words, environ) != 0 ||
        waitpid(child, &status, 0) != child || status != 0)
      return 1;
    printf("%.3f\n", now_ms() - begin);
  }
  return 0;
}
