// Runs in the guest: a counter that grows ten thousand times a second at best, in a page that begins with 16
// random bytes, which are printed. Who watches that page from outside (gap_watch.c) sees for how long the
// program stood still. Each line on standard input makes it write new contents into all of MEGABYTES of
// memory; RATE: a child writes so many MB/s into a file.
//
//   beat MEGABYTES RATE
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { page = 4096, piece = 1 << 20 };

static volatile uint64_t* heart;

static void nap(long us) {
  const struct timespec at = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&at, NULL);
}

static void* beat(void* unused) {
  (void)unused;
  for (;; nap(100)) ++heart[2];
}

static void write_file(long rate) {
  char* data = malloc(piece);
  memset(data, 'x', piece);
  const int fd = open("/home/user/stream", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (long at = 0;; at = (at + 1) % 256) {
    if (pwrite(fd, data, piece, (off_t)at * piece) != piece) _exit(1);
    nap(1000000 / rate);
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const size_t bytes = (size_t)atol(argv[1]) << 20;
  const long rate = atol(argv[2]);
  if (rate > 0 && fork() == 0) write_file(rate);  // before there is memory to share
  char* memory =
      mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return 1;
  heart = (void*)(memory + bytes);
  if (getrandom((void*)heart, 16, 0) != 16) return 1;
  for (int i = 0; i < 16; ++i) printf("%02x", ((volatile unsigned char*)heart)[i]);
  printf("\n");
  fflush(stdout);
  pthread_t thread;
  if (pthread_create(&thread, NULL, beat, NULL) != 0) return 1;
  char line[64];
  for (uint64_t turn = 1; fgets(line, sizeof line, stdin) != NULL; ++turn) {
    for (size_t at = 0; at < bytes; at += sizeof turn)
      *(uint64_t*)(memory + at) = at * 0x9e3779b97f4a7c15u + turn;
    puts("done");
    fflush(stdout);
  }
  return 0;
}
