/* examples_cluster.c: what the examples for a cluster show is true. */
#include "support/proc.h"
#include "support/rig.h"

#include <sys/wait.h>

enum { GAMES = 14, LONG_MS = 60000 };

/* In whatever order they were found. */
static void all_games_are_found_and_played_in_order(void **state)
{
    (void)state;
    char line[512], want[64];
    bool seen[GAMES] = { false };
    const char *argv[] = { EXAMPLES "/example-queue_games_cluster", url, NULL };
    proc *p = proc_start(argv, &(proc_opts){ .with_stderr = true });
    for (int i = 0; i < GAMES; i++) {
        int game = 0;
        assert_true(proc_line(p, line, sizeof line, LONG_MS));
        if (sscanf(line, "Game%d:", &game) != 1 || game < 1 || game > GAMES)
            fail_msg("it says: %s", line);
        char c = (char)('A' + game - 1);
        snprintf(want, sizeof want, "Game%d: %c1 %c2 %c3 %c4 %c5", game, c, c,
                 c, c, c);
        assert_string_equal(line, want);
        assert_false(seen[game - 1]);
        seen[game - 1] = true;
    }
    assert_true(proc_line(p, line, sizeof line, LONG_MS));
    assert_string_equal(line, "14 games found");
    int status = -1;
    assert_true(proc_wait(p, LONG_MS, &status));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    proc_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_games_are_found_and_played_in_order),
    };
    rig_opts = (cluster_opts){ .replicas = -1 };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
