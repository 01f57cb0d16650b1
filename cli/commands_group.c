/*
 * commands_group.c: the commands on groups.
 */
#include "commands.h"

/* Of ls, info, lag and members. */
static const option group_look_options[] = { WATCH_OPTIONS, { 0 } };

static const option group_seek_options[] = {
    { "to", 0, VALUE_TEXT, "WHERE", NULL, NULL, false, false,
      "Where to read on: start, end, a time ago such as 10m, a time such as "
      "2026-01-31T12:00:00Z, which is local without a zone, or @MS since 1970, "
      "or an id MS-SEQ: that message comes next, or the first after it." },
    { "partition", 'p', VALUE_NUMBER, "N", NULL, NULL, false, false,
      "Only this partition." },
    { "drop", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Forget what is put by for a retry or parked behind it; without, it "
      "comes as well." },
    FORCE_OPTION("Also while members live: what they have in hand is stale, "
                 "and they go on from there."),
    DRY_RUN_OPTION,
    { 0 },
};

static const option group_alter_options[] = {
    { "lease", 0, VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "A member that is silent for so long is dead." },
    { "order", 0, VALUE_CHOICE, "ORDER", NULL, "partition key none", false,
      false,
      "What must not overtake what; a partition changes when nothing of it is "
      "out or waits for a retry." },
    { "max-attempts", 0, VALUE_NUMBER, "N", NULL, NULL, false, false,
      "How often a message is tried; then it is a dead letter.  0: without a "
      "limit." },
    { "backoff", 0, VALUE_TEXT, "HOW", NULL, NULL, false, false,
      "How long a message waits that is to be tried again: fixed:TIME, or "
      "exponential:TIME[..MAX], and ,nojitter behind it." },
    { "re-add", 0, VALUE_CHOICE, "HOW", NULL, "yes no", false, false,
      "Whether a message that failed becomes a new one at the end of the log, "
      "for this group alone." },
    { "id", 0, VALUE_TEXT, "ID", NULL, NULL, false, false,
      "Only the group with this id, as 'leat group info' shows it; another of "
      "that name stays as it is." },
    { 0 },
};

static const example group_alter_examples[] = {
    { "leat group alter orders billing --lease 30s",
      "members that pause for long" },
    { "leat group alter orders billing --order key",
      "other keys pass one that fails" },
    { 0 },
};

static const option group_rm_options[] = {
    { "dead-letters", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Remove its dead letters, too." },
    { "id", 0, VALUE_TEXT, "ID", NULL, NULL, false, false,
      "Only the group with this id, as 'leat group info' shows it; another of "
      "that name stays.  For a removal that is tried again." },
    FORCE_OPTION("Also while members live; those that go on make the group "
                 "anew."),
    DRY_RUN_OPTION,
    { 0 },
};

static const option group_pending_options[] = {
    WATCH_OPTIONS,
    { "sort", 0, VALUE_CHOICE, "ORDER", "age", "age attempts position", false,
      false,
      "The oldest first, the most attempts first, or by partition and "
      "position." },
    COUNT_OPTION("100", "How many to show, at most 10000."),
    { "after", 0, VALUE_TEXT, "TEXT", NULL, NULL, false, false,
      "Go on after a page, as the page before it says." },
    { "partition", 'p', VALUE_NUMBER, "N", NULL, NULL, false, false,
      "Only this partition." },
    { 0 },
};

static const example group_lag_examples[] = {
    { "leat group lag orders billing --watch", "a table that follows" },
    { "leat group lag orders billing -o json", "for a program" },
    { 0 },
};

static const example group_seek_examples[] = {
    { "leat group seek orders billing --to 2h --dry-run",
      "how many would come again?" },
    { "leat group seek orders billing --to end --yes", "skip all there is" },
    { 0 },
};

static const example group_rm_examples[] = {
    { "leat group rm orders billing --yes", "without a question" },
    { "leat group rm orders billing --id 0123456789abcdef --yes",
      "that one, and none that was made since" },
    { 0 },
};

static const example group_pending_examples[] = {
    { "leat group pending orders billing --sort attempts -n 10",
      "those that fail most often" },
    { "leat group pending orders billing -o ndjson", "for a program" },
    { 0 },
};

const command group_commands[] = {
    { .noun = "group",
      .verb = "ls",
      .aliases = "list",
      .args = "TOPIC",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "list the groups of a topic",
      .text = "With their members and lag.",
      .options = group_look_options,
      .run = run_group_ls,
      .looks = true },
    { .noun = "group",
      .verb = "info",
      .aliases = "show describe",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "show a group as a whole",
      .text = "Partitions, how many of them have an owner, members and how "
              "many of them live, lag; since when it is paused; messages that "
              "are in flight, put by for a retry, due now, and parked in lanes "
              "behind one that is; and of how many partitions messages are not "
              "kept for it any more (detached).  Its id tells it from another "
              "group of that name, before or after it.  Last what its members "
              "share, which 'leat group alter' changes; max_attempts 0 is "
              "without a limit.",
      .options = group_look_options,
      .run = run_group_info,
      .looks = true },
    { .noun = "group",
      .verb = "lag",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "show how far a group is, partition by partition",
      .text = "Lag is an exact count of messages that are not settled, without "
              "those put by for a retry or parked behind one; where there are "
              "too many to count it is empty, or - in a table, never a "
              "guess.  Everything up to the cursor is settled; everything up "
              "to the mark was handed out at least once.  --columns shows "
              "more: due, lanes, beat_s (since the owner's last heartbeat), "
              "reason and changed (why and when the owner last changed).",
      .options = group_look_options,
      .examples = group_lag_examples,
      .run = run_group_lag,
      .looks = true },
    { .noun = "group",
      .verb = "members",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "list the members of a group",
      .text = "A member that died is listed until the others notice.  It is "
              "alive if its last heartbeat is younger than its lease, by the "
              "server's clock.",
      .options = group_look_options,
      .run = run_group_members,
      .looks = true },
    { .noun = "group",
      .verb = "pending",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "list what is handed out and not settled, or put by",
      .text = "A message is out (handed out, or was to somebody who died), "
              "waits for a retry until it is due, or is parked behind one of "
              "its key that does.  All partitions are merged.",
      .options = group_pending_options,
      .examples = group_pending_examples,
      .run = run_group_pending,
      .looks = true },
    { .noun = "group",
      .verb = "seek",
      .args = "TOPIC GROUP --to WHERE",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "set where a group reads on",
      .text = "Tells how many messages are skipped or come again, and asks "
              "first on a terminal; elsewhere it needs --yes.  Refused while "
              "members live, unless --force.  Partitions are set one after "
              "another; what was cut short is run again.",
      .options = group_seek_options,
      .examples = group_seek_examples,
      .run = run_group_seek },
    { .noun = "group",
      .verb = "alter",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "change what the members of a group share",
      .text = "The first member's options made it.  What is not given stays: "
              "of two changes at once neither undoes the other.  Members that "
              "live learn of a change within seconds; none of them loses a "
              "partition by it, and nothing is overtaken.  A member that asks "
              "for anything else is refused when it joins.",
      .options = group_alter_options,
      .examples = group_alter_examples,
      .run = run_group_alter },
    { .noun = "group",
      .verb = "pause",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "hand out nothing to the members of a group",
      .text = "What they have in hand is finished.  It stays paused, whoever "
              "comes and goes, until 'leat group resume'.",
      .run = run_group_pause },
    { .noun = "group",
      .verb = "resume",
      .aliases = "unpause",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "let a paused group go on",
      .text = "One that is not paused stays as it is.",
      .run = run_group_resume },
    { .noun = "group",
      .verb = "rm",
      .aliases = "remove delete",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "remove a group and all that is known of it",
      .text = "Its place, what is put by for it and its members' records go; "
              "its dead letters stay unless --dead-letters.  Asks first on a "
              "terminal; elsewhere it needs --yes.  Refused while members "
              "live, unless --force.",
      .options = group_rm_options,
      .examples = group_rm_examples,
      .run = run_group_rm },
    { 0 },
};
