/*
 * Preloaded into a program under test: finds the Python lines that make each system call that writes, and makes one
 * of the calls fail, or kills the process. A place is the system call and those lines; see places.py.
 *
 * Environment:
 *   FAULT_BELOW   only calls on files below this directory count
 *   FAULT_OURS    path prefixes of our sources, separated by colons
 *   FAULT_ALONE   if set, only calls of the first process count
 *   FAULT_LOG     file to which each process appends the places that it reaches
 *   FAULT_AT      "PLACE NUMBER": the call to fail, the NUMBER-th (from 1) at this place in a process
 *   FAULT_KIND    an errno, or 0 to kill
 *   FAULT_ONCE    file created when the fault is injected, so that it happens only once
 *
 * Before each counted call, faccessat is called with the name MARK/PLACE/NUMBER, which strace shows.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define MARK "/hpcmod-fault"
#define LONGEST 8192
#define MOST 4096

static char below[PATH_MAX], ours[PATH_MAX], log_file[PATH_MAX], once[PATH_MAX];
static uint64_t fault_place;
static long fault_number;
static int fault_kind = -1;
static pid_t alone;
static struct { uint64_t place; long count; } reached[MOST];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static void take(char *to, const char *name) {
    const char *value = getenv(name);
    snprintf(to, PATH_MAX, "%s", value ? value : "");
}

/* Read the environment; called again in a process that was forked before its environment was known. */
void fault_arm(void) {
    const char *at = getenv("FAULT_AT"), *kind = getenv("FAULT_KIND");
    take(below, "FAULT_BELOW");
    take(ours, "FAULT_OURS");
    take(log_file, "FAULT_LOG");
    take(once, "FAULT_ONCE");
    fault_kind = at && kind && sscanf(at, "%lx %ld", &fault_place, &fault_number) == 2 ? atoi(kind) : -1;
    memset(reached, 0, sizeof reached);
    alone = 0;
    if (getenv("FAULT_ALONE")) {
        alone = getpid();
        unsetenv("LD_PRELOAD");
    }
}

__attribute__((constructor)) static void start(void) { fault_arm(); }

/* Python lines on the stack of this thread. Python's functions are looked up, since not every program has them. */

typedef struct _object PyObject;
static PyObject *(*frame_of_thread)(void), *(*back_of)(PyObject *), *(*code_of)(PyObject *);
static PyObject *(*attribute)(PyObject *, const char *);
static const char *(*utf8)(PyObject *);
static int (*line_of)(PyObject *), (*initialized)(void), (*ensure)(void);
static void (*leave)(int), (*release)(PyObject *), *(*state_of_thread)(void);
static void (*fetch)(PyObject **, PyObject **, PyObject **), (*restore)(PyObject *, PyObject *, PyObject *);

static int find_python(void) {
    static int found = -1;
    if (found >= 0)
        return found;
    frame_of_thread = dlsym(RTLD_DEFAULT, "PyEval_GetFrame");
    back_of = dlsym(RTLD_DEFAULT, "PyFrame_GetBack");
    code_of = dlsym(RTLD_DEFAULT, "PyFrame_GetCode");
    line_of = dlsym(RTLD_DEFAULT, "PyFrame_GetLineNumber");
    attribute = dlsym(RTLD_DEFAULT, "PyObject_GetAttrString");
    utf8 = dlsym(RTLD_DEFAULT, "PyUnicode_AsUTF8");
    initialized = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    ensure = dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    leave = dlsym(RTLD_DEFAULT, "PyGILState_Release");
    release = dlsym(RTLD_DEFAULT, "Py_DecRef");
    state_of_thread = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    fetch = dlsym(RTLD_DEFAULT, "PyErr_Fetch");
    restore = dlsym(RTLD_DEFAULT, "PyErr_Restore");
    return found = frame_of_thread && back_of && code_of && line_of && attribute && utf8 && initialized && ensure &&
                   leave && release && state_of_thread && fetch && restore;
}

static int is_ours(const char *file) {
    for (const char *at = ours; *at;) {
        size_t length = strcspn(at, ":");
        if (length && !strncmp(file, at, length))
            return 1;
        at += length + (at[length] == ':');
    }
    return 0;
}

/* Append a line of a file; repeated equal lines, as in a recursion, count once. */
static void append(char *text, size_t *end, const char *file, int line, char *last) {
    char one[512];
    const char *tail = strlen(file) > 400 ? file + strlen(file) - 400 : file;
    snprintf(one, sizeof one, " < %s:%d", tail, line);
    if (strcmp(one, last) && *end + strlen(one) < LONGEST) {
        memcpy(text + *end, one, strlen(one) + 1);
        *end += strlen(one);
    }
    strcpy(last, one);
}

/* Describe the stack: the innermost line and all of ours, or all lines if none are ours. Empty without Python. */
static void describe(char *text, size_t *end) {
    if (!find_python() || !initialized() || !state_of_thread())
        return;
    char all[LONGEST] = "", last[512] = "", last_of_all[512] = "";
    size_t start = *end, end_of_all = 0;
    int state = ensure(), found = 0;
    PyObject *kind, *value, *trace;
    fetch(&kind, &value, &trace);
    PyObject *frame = frame_of_thread();
    for (int depth = 0; frame && depth < 300; depth++) {
        PyObject *code = code_of(frame), *name = attribute(code, "co_filename");
        const char *file = name ? utf8(name) : NULL;
        if (file) {
            int mine = is_ours(file), line = line_of(frame);
            found |= mine;
            if (!strstr(file, "/tests/faults/") && strcmp(file, "<string>")) /* what a forked run has outside of it */
                append(all, &end_of_all, file, line, last_of_all);
            if (mine || !depth)
                append(text, end, file, line, last);
        }
        if (name)
            release(name);
        release(code);
        PyObject *outer = back_of(frame);
        if (depth)
            release(frame);
        frame = outer;
    }
    if (!found && start + end_of_all < LONGEST) {
        memcpy(text + start, all, end_of_all + 1);
        *end = start + end_of_all;
    }
    restore(kind, value, trace);
    leave(state);
}

static uint64_t digest(const char *text) {
    uint64_t found = 14695981039346656037u;
    for (; *text; text++)
        found = (found ^ (unsigned char)*text) * 1099511628211u;
    return found;
}

/* Return whether a path is below FAULT_BELOW, or one of hpcmod's own in a temporary directory. */
static int counts(const char *path) {
    size_t length = strlen(below);
    if (!length)
        return 0;
    return (!strncmp(path, below, length) && (path[length] == '/' || !path[length])) || strstr(path, "/.hpcmod-");
}

static int descriptor_is_below(int fd) {
    char link[64], path[PATH_MAX];
    if (fd == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return counts(path);
}

/* Return whether a path, relative to an open directory or absolute, is below FAULT_BELOW. Paths through open
 * directories are hpcmod's, and always count. */
static int is_below(int fd, const char *path) {
    int number;
    if (!path || !*below)
        return 0;
    if (sscanf(path, "/proc/self/fd/%d", &number) == 1 || sscanf(path, "/proc/%*d/fd/%d", &number) == 1)
        return 1;
    return *path == '/' ? counts(path) : descriptor_is_below(fd);
}

/* Count a call at its place; return 0, or an errno if this is the call to fail. */
static int visit(const char *call) {
    if (alone && getpid() != alone)
        return 0;
    int kept = errno;
    char text[LONGEST];
    size_t end = snprintf(text, sizeof text, "%s", call);
    describe(text, &end);
    if (end == strlen(call)) { /* not Python */
        errno = kept;
        return 0;
    }
    uint64_t place = digest(text);
    long count = 0;
    pthread_mutex_lock(&guard);
    for (int n = 0; n < MOST; n++)
        if (!reached[n].count || reached[n].place == place) {
            reached[n].place = place;
            count = ++reached[n].count;
            break;
        }
    pthread_mutex_unlock(&guard);
    char mark[96];
    if (log_file[0]) {
        snprintf(mark, sizeof mark, MARK "/%016lx/%ld", place, count);
        syscall(SYS_faccessat, AT_FDCWD, mark, F_OK);
        if (count == 1) {
            int file = syscall(SYS_openat, AT_FDCWD, log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
            char line[LONGEST + 32];
            int length = snprintf(line, sizeof line, "%016lx %s\n", place, text);
            syscall(SYS_write, file, line, length);
            syscall(SYS_close, file);
        }
    }
    int fails = 0;
    if (fault_kind >= 0 && place == fault_place && count == fault_number) {
        int file = syscall(SYS_openat, AT_FDCWD, once, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0) {
            syscall(SYS_close, file);
            if (!fault_kind)
                kill(getpid(), SIGKILL);
            fails = fault_kind;
        }
    }
    errno = kept;
    return fails;
}

#define CONCAT(a, b) a##b
#define WRAP(kind, symbol, name, writes, declared, ...)                                                                \
    kind symbol declared {                                                                                             \
        static kind(*real) declared;                                                                                   \
        if (!real)                                                                                                     \
            real = dlsym(RTLD_NEXT, #symbol);                                                                          \
        int failed = (writes) ? visit(name) : 0;                                                                       \
        if (failed) {                                                                                                  \
            errno = failed;                                                                                            \
            return -1;                                                                                                 \
        }                                                                                                              \
        return real(__VA_ARGS__);                                                                                      \
    }

struct iovec;
struct timespec;

WRAP(ssize_t, write, "write", descriptor_is_below(fd), (int fd, const void *b, size_t n), fd, b, n)
WRAP(ssize_t, writev, "writev", descriptor_is_below(fd), (int fd, const struct iovec *b, int n), fd, b, n)
WRAP(ssize_t, pwrite, "pwrite64", descriptor_is_below(fd), (int fd, const void *b, size_t n, off_t o), fd, b, n, o)
WRAP(ssize_t, pwrite64, "pwrite64", descriptor_is_below(fd), (int fd, const void *b, size_t n, off_t o), fd, b, n, o)
WRAP(ssize_t, sendfile, "sendfile", descriptor_is_below(o), (int o, int i, off_t *f, size_t n), o, i, f, n)
WRAP(ssize_t, sendfile64, "sendfile", descriptor_is_below(o), (int o, int i, off_t *f, size_t n), o, i, f, n)
WRAP(ssize_t, copy_file_range, "copy_file_range", descriptor_is_below(o),
     (int i, off_t *p, int o, off_t *q, size_t n, unsigned f), i, p, o, q, n, f)
WRAP(int, ftruncate, "ftruncate", descriptor_is_below(fd), (int fd, off_t n), fd, n)
WRAP(int, ftruncate64, "ftruncate", descriptor_is_below(fd), (int fd, off_t n), fd, n)
WRAP(int, fallocate, "fallocate", descriptor_is_below(fd), (int fd, int m, off_t o, off_t n), fd, m, o, n)
WRAP(int, fallocate64, "fallocate", descriptor_is_below(fd), (int fd, int m, off_t o, off_t n), fd, m, o, n)
WRAP(int, fsync, "fsync", descriptor_is_below(fd), (int fd), fd)
WRAP(int, fdatasync, "fdatasync", descriptor_is_below(fd), (int fd), fd)
WRAP(int, fchmod, "fchmod", descriptor_is_below(fd), (int fd, mode_t m), fd, m)
WRAP(int, fchown, "fchown", descriptor_is_below(fd), (int fd, uid_t u, gid_t g), fd, u, g)
WRAP(int, futimens, "utimensat", descriptor_is_below(fd), (int fd, const struct timespec *t), fd, t)
WRAP(int, rename, "rename", is_below(AT_FDCWD, a) || is_below(AT_FDCWD, b), (const char *a, const char *b), a, b)
WRAP(int, renameat, "renameat", is_below(d, a) || is_below(e, b), (int d, const char *a, int e, const char *b), d, a, e, b)
WRAP(int, renameat2, "renameat2", is_below(d, a) || is_below(e, b),
     (int d, const char *a, int e, const char *b, unsigned f), d, a, e, b, f)
WRAP(int, link, "link", is_below(AT_FDCWD, b), (const char *a, const char *b), a, b)
WRAP(int, linkat, "linkat", is_below(e, b), (int d, const char *a, int e, const char *b, int f), d, a, e, b, f)
WRAP(int, symlink, "symlink", is_below(AT_FDCWD, b), (const char *a, const char *b), a, b)
WRAP(int, symlinkat, "symlinkat", is_below(d, b), (const char *a, int d, const char *b), a, d, b)
WRAP(int, mkdir, "mkdir", is_below(AT_FDCWD, a), (const char *a, mode_t m), a, m)
WRAP(int, mkdirat, "mkdirat", is_below(d, a), (int d, const char *a, mode_t m), d, a, m)
WRAP(int, unlink, "unlink", is_below(AT_FDCWD, a), (const char *a), a)
WRAP(int, unlinkat, "unlinkat", is_below(d, a), (int d, const char *a, int f), d, a, f)
WRAP(int, rmdir, "rmdir", is_below(AT_FDCWD, a), (const char *a), a)
WRAP(int, chmod, "chmod", is_below(AT_FDCWD, a), (const char *a, mode_t m), a, m)
WRAP(int, fchmodat, "fchmodat", is_below(d, a), (int d, const char *a, mode_t m, int f), d, a, m, f)
WRAP(int, chown, "chown", is_below(AT_FDCWD, a), (const char *a, uid_t u, gid_t g), a, u, g)
WRAP(int, lchown, "lchown", is_below(AT_FDCWD, a), (const char *a, uid_t u, gid_t g), a, u, g)
WRAP(int, fchownat, "fchownat", is_below(d, a), (int d, const char *a, uid_t u, gid_t g, int f), d, a, u, g, f)
WRAP(int, utimensat, "utimensat", a ? is_below(d, a) : descriptor_is_below(d),
     (int d, const char *a, const struct timespec *t, int f), d, a, t, f)

#define OPEN(symbol, directory, declared, ...)                                                                         \
    int symbol declared {                                                                                              \
        static int (*real)(__VA_ARGS__, mode_t);                                                                       \
        if (!real)                                                                                                     \
            real = dlsym(RTLD_NEXT, #symbol);                                                                          \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                      \
        va_end(rest);                                                                                                  \
        int failed = flags & O_CREAT && is_below(directory, path) ? visit("openat") : 0;                               \
        if (failed) {                                                                                                  \
            errno = failed;                                                                                            \
            return -1;                                                                                                 \
        }

OPEN(open, AT_FDCWD, (const char *path, int flags, ...), const char *, int) return real(path, flags, mode); }
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), const char *, int) return real(path, flags, mode); }
OPEN(openat, d, (int d, const char *path, int flags, ...), int, const char *, int) return real(d, path, flags, mode); }
OPEN(openat64, d, (int d, const char *path, int flags, ...), int, const char *, int) return real(d, path, flags, mode); }
