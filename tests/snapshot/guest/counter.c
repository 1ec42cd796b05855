// Runs in the guest. A counter in memory and the same one in a file written O_DIRECT | O_DSYNC: before each
// write the file is read back O_DIRECT and must hold what memory holds, so a machine whose memory and disk
// are of two instants is caught by the first step it makes.
//
//   counter run FILE STATUS    prints {"magic","physical","buffer_magic"} once, then counts until it is ended
//   counter show STATUS        prints {"ram","steps","mismatches","worst"}
//
// STATUS is a file on tmpfs: the counter's page is a page of it. FILE's block begins with `buffer_magic`, the
// counter after it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { block = 4096 };

struct status {
  uint64_t magic[2];
  volatile uint64_t ram, steps, mismatches;
  volatile int64_t worst;
};

static void die(const char* what) {
  perror(what);
  exit(1);
}

static struct status* map_status(const char* path, int flags) {
  const int fd = open(path, flags, 0600);
  if (fd < 0 || ((flags & O_CREAT) && ftruncate(fd, block) != 0)) die(path);
  void* at = mmap(NULL, block, PROT_READ | (flags & O_CREAT ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) die("mmap");
  return at;
}

static uint64_t where_on_disk(int fd) {
  struct fiemap* map = calloc(1, sizeof *map + sizeof map->fm_extents[0]);
  map->fm_length = block;
  map->fm_flags = FIEMAP_FLAG_SYNC;
  map->fm_extent_count = 1;
  if (ioctl(fd, FS_IOC_FIEMAP, map) != 0 || map->fm_mapped_extents != 1) die("FIEMAP");
  return map->fm_extents[0].fe_physical;
}

static void print_hex(const char* name, const void* bytes) {
  printf("\"%s\":\"", name);
  for (int i = 0; i < 16; ++i) printf("%02x", ((const unsigned char*)bytes)[i]);
  printf("\"");
}

static void run(const char* path, const char* status_path) {
  struct status* status = map_status(status_path, O_RDWR | O_CREAT);
  uint64_t* out = aligned_alloc(block, block);
  uint64_t* in = aligned_alloc(block, block);
  memset(out, 0, block);
  if (getrandom(status->magic, 16, 0) != 16 || getrandom(out, 16, 0) != 16) die("getrandom");
  const int fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_DSYNC, 0600);
  if (fd < 0 || pwrite(fd, out, block, 0) != block || fsync(fd) != 0) die(path);
  printf("{");
  print_hex("magic", status->magic);
  printf(",");
  print_hex("buffer_magic", out);
  printf(",\"physical\":%llu}\n", (unsigned long long)where_on_disk(fd));
  fflush(stdout);
  for (;;) {
    if (pread(fd, in, block, 0) != block) die("read");
    const int64_t apart = (int64_t)(status->ram - in[2]);
    if (apart != 0) {
      ++status->mismatches;
      if (llabs(apart) > llabs(status->worst)) status->worst = apart;
    }
    out[2] = ++status->ram;
    if (pwrite(fd, out, block, 0) != block) die("write");
    ++status->steps;
  }
}

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "run") == 0) run(argv[2], argv[3]);
  if (argc != 3) return 2;
  const struct status* status = map_status(argv[2], O_RDONLY);
  printf("{\"ram\":%llu,\"steps\":%llu,\"mismatches\":%llu,\"worst\":%lld}\n",
         (unsigned long long)status->ram, (unsigned long long)status->steps,
         (unsigned long long)status->mismatches, (long long)status->worst);
  return 0;
}
