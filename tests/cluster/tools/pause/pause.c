/* Keeps namespaces alive: does nothing as their first process, buries orphans, goes away when asked to. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int number) {
  (void)number;
  _exit(0);
}

static void bury(int number) {
  (void)number;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction on_end = {.sa_handler = leave};
  struct sigaction on_child = {.sa_handler = bury, .sa_flags = SA_NOCLDSTOP | SA_RESTART};
  sigaction(SIGTERM, &on_end, NULL);
  sigaction(SIGINT, &on_end, NULL);
  sigaction(SIGCHLD, &on_child, NULL);
  for (;;) pause();
}
