/*
 * leat.h: reliable messaging on the Redis and the SQL database you already
 * run.  This header includes every other one.
 */
#ifndef LEAT_LEAT_H
#define LEAT_LEAT_H

#include <leat/admin.h>
#include <leat/api.h>
#include <leat/bytes.h>
#include <leat/describe.h>
#include <leat/dlq.h>
#include <leat/error.h>
#include <leat/json.h>
#include <leat/log.h>
#include <leat/message.h>
#include <leat/metrics.h>
#include <leat/pool.h>
#include <leat/queue.h>
#include <leat/redis.h>
#include <leat/run.h>
#include <leat/source.h>
#include <leat/stream.h>
#include <leat/system.h>
#include <leat/topic.h>

#endif
