// Runs on the host, as root: for how long a program of a guest stood still, by the host's clock. The guest's
// own clocks stand still with it, so nothing in the guest can measure that.
//
//   gap_watch PID MAGIC   finds the page of the guest's memory (the mapping of /memory in QEMU PID) that
//   begins with MAGIC, 16 bytes
//                         in hex, and watches the number behind it, looking every 50 us or so. Each line on
//                         standard input is answered by the longest time in ms without a change since the
//                         line before.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { page = 4096, piece = 1 << 20 };

static double now_ms(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC_RAW, &at);
  return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

static int parse_magic(const char* text, unsigned char* magic) {
  for (int i = 0; i < 16; ++i) {
    unsigned byte;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) return 0;
    magic[i] = (unsigned char)byte;
  }
  return 1;
}

static off_t find_in(int memory, off_t begin, off_t end, const unsigned char* magic) {
  static char data[piece];
  for (off_t at = begin; at < end; at += piece) {
    const ssize_t count = pread(memory, data, piece, at);
    for (ssize_t k = 0; k + page <= count; k += page)
      if (memcmp(data + k, magic, 16) == 0) return at + k;
  }
  return 0;
}

static off_t find(const char* pid, int memory, const unsigned char* magic) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/%s/maps", pid);
  FILE* maps = fopen(path, "r");
  if (maps == NULL) return 0;
  off_t found = 0;
  while (found == 0 && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin, end;
    if (strstr(line, " /memory") != NULL && sscanf(line, "%lx-%lx", &begin, &end) == 2)
      found = find_in(memory, (off_t)begin, (off_t)end, magic);
  }
  fclose(maps);
  return found;
}

static void watch(int memory, off_t at) {
  uint64_t last = 0;
  double since = now_ms(), longest = 0;
  for (;;) {
    uint64_t value = last;
    if (pread(memory, &value, sizeof value, at) != sizeof value) exit(3);
    const double now = now_ms();
    if (now - since > longest) longest = now - since;
    if (value != last) since = now;
    last = value;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&input, 1, 0) > 0) {
      char line[64];
      if (fgets(line, sizeof line, stdin) == NULL) return;
      printf("%.3f\n", longest);
      fflush(stdout);
      longest = 0;
      since = now;
    }
    const struct timespec short_while = {0, 50000};
    nanosleep(&short_while, NULL);
  }
}

int main(int argc, char** argv) {
  unsigned char magic[16];
  if (argc != 3 || !parse_magic(argv[2], magic)) return 2;
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/mem", argv[1]);
  const int memory = open(path, O_RDONLY);
  if (memory < 0) return 1;
  setvbuf(stdin, NULL, _IONBF, 0);
  const off_t at = find(argv[1], memory, magic);
  if (at == 0) return 1;
  printf("watching\n");
  fflush(stdout);
  watch(memory, at + 16);
  return 0;
}
