// Revokes a publication in steps. First the readers are asked to release the memory before a deadline. Then the
// publication is withdrawn. Then, if the client allows it, readers that run for the publication's owner are ended by
// SIGTERM, and shortly after by SIGKILL. Readers of other users are never ended. The revocation ends when no lease is
// left, or after the last step. The answer names the step that was reached.
#include "daemon/broker/revoke.h"

#include "base/clock.h"
#include "daemon/broker/publication.h"
#include "daemon/broker/session.h"
#include "daemon/broker/step.h"
#include "daemon/json_text.h"
#include "daemon/say.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STEP_ASKED, STEP_WITHDRAWN, STEP_TERMINATED, STEP_KILLED };
static const char *const step_words[] = {"asked", "withdrawn", "terminated", "killed"};

enum { MOST_SECONDS = 24 * 3600, KILL_PATIENCE_S = 2 };

static bool is_reader(const struct session *session, const struct publication *publication)
{
	return session->edition && session->edition->publication == publication &&
	       session != session->edition->publisher;
}

static unsigned int count_readers(const struct node *node, const struct publication *publication)
{
	unsigned int count = 0;

	for (const struct session *session = node->sessions; session; session = session->next)
		count += is_reader(session, publication);
	return count;
}

static struct publication *find_publication(const struct node *node, const struct session *revoker)
{
	for (struct publication *one = node->publications; one; one = one->next)
		if (one->revoker == revoker)
			return one;
	return NULL;
}

static void withdraw_all(struct node *node, struct publication *publication)
{
	publication_forget_lost(node, publication);
	for (struct edition *edition = publication->editions; edition; edition = edition->next) {
		edition_withdraw(node, edition);
		if (edition->publisher && edition->publisher->state == SESSION_PUBLISHED)
			edition_notify(edition->publisher, VG_WIRE_WITHDRAWN, edition->generation, 0);
	}
}

static json_t *list_left(const struct node *node, const struct publication *publication)
{
	json_t *left = json_array();

	for (const struct session *session = node->sessions; session; session = session->next)
		if (is_reader(session, publication))
			json_array_append_new(left, json_pack("{s:i, s:o, s:b}", "pid", (int)session->peer.pid, "user",
							      json_user(session->peer.uid), "owner",
							      session->peer.uid == publication->owner));
	return left;
}

// Ends the revocation: withdraws all editions, and sends the answer to the client that revokes. The answer says which
// step of the revocation was done last, and which readers are left.
static void finish_revoking(struct node *node, struct session *revoker, struct publication *publication)
{
	json_t *report = json_pack("{s:b, s:s, s:i, s:o}", "ok", 1, "step", step_words[revoker->step], "holders",
				   (int)revoker->holders, "left", list_left(node, publication));

	withdraw_all(node, publication);
	BROKER_STEP("about to report");
	publication->revoker = NULL;
	publication->refuses = false;
	revoker->state = SESSION_ENDED;
	session_set_deadline(revoker);
	session_answer(node, revoker, report, -1);
	publication_release(node, publication);
}

static bool may_signal(const struct session *session, const struct session *revoker,
		       const struct publication *publication)
{
	return is_reader(session, publication) && session->peer.uid == publication->owner && session->process.fd >= 0 &&
	       session->peer.pid != revoker->peer.pid;
}

// Sends the signal to the readers whose processes have the same user id as the publication's owner. Returns whether a
// process got the signal.
static bool send_signal(struct node *node, const struct session *revoker, const struct publication *publication,
			int signal)
{
	bool sent = false;

	for (struct session *session = node->sessions; session; session = session->next) {
		if (!may_signal(session, revoker, publication))
			continue;
		say("publication %s is revoked: process %d is sent signal %d", publication->name,
		    (int)session->peer.pid, signal);
		sent |= syscall(SYS_pidfd_send_signal, session->process.fd, signal, NULL, 0) == 0;
	}
	return sent;
}

void revoke_step(struct node *node, struct session *revoker)
{
	struct publication *publication = find_publication(node, revoker);
	static const int signals[] = {[STEP_TERMINATED] = SIGTERM, [STEP_KILLED] = SIGKILL};

	withdraw_all(node, publication);
	BROKER_STEP("withdrawn from its readers");
	if (revoker->step == STEP_ASKED)
		revoker->step = STEP_WITHDRAWN;
	while (revoker->may_kill && revoker->step < STEP_KILLED) {
		revoker->step++;
		if (send_signal(node, revoker, publication, signals[revoker->step])) {
			BROKER_STEP("a signal was sent");
			revoker->deadline_ns = vg_clock_monotonic_ns() + KILL_PATIENCE_S * 1000000000ull;
			return;
		}
		revoker->step--; // no reader got a signal: the answer must not name this step
		break;
	}
	finish_revoking(node, revoker, publication);
}

void revoke_check(struct node *node, struct publication *publication)
{
	struct session *revoker = publication->revoker;
	bool done = count_readers(node, publication) == 0;

	if (revoker->step >= STEP_TERMINATED && !done) { // the other readers belong to other users, and are not ended
		done = true;
		for (const struct session *session = node->sessions; session; session = session->next)
			done &= !may_signal(session, revoker, publication);
	}
	if (done)
		finish_revoking(node, revoker, publication);
}

void revoke_cancel(struct node *node, struct session *revoker)
{
	struct publication *publication = find_publication(node, revoker);

	if (!publication)
		return;
	withdraw_all(node, publication);
	publication->revoker = NULL;
	publication->refuses = false;
	publication_release(node, publication);
}

static json_t *check_revoking(const struct request *request, struct publication **ret_publication)
{
	const char *name = request_text(request, "name");
	struct publication *publication = name ? publication_find(request->node, name) : NULL;
	const json_t *seconds = json_object_get(request->object, "deadline");

	if (!json_is_number(seconds) || !(json_number_value(seconds) >= 0) || json_number_value(seconds) > MOST_SECONDS)
		return refuse("invalid", "the deadline is in seconds, 0 to %d", MOST_SECONDS);
	if (!publication || (!publication->page && !publication->editions))
		return refuse("not_found", "there is no publication %.63s: `virgate share list%s` lists them",
			      name ? name : "", sim_flag());
	if (!authority_allows(AUTHORITY_REVOKE, authority_classify(request->peer, publication->owner, (gid_t)-1))) {
		json_t *owner = json_user(publication->owner);
		json_t *refusal = refuse("denied", "publication %s is user %s's: only they and root may revoke it",
					 name, json_string_value(owner));
		json_decref(owner);
		return refusal;
	}
	if (publication->revoker)
		return refuse("busy", "publication %s is being revoked already", name);
	*ret_publication = publication;
	return NULL;
}

void revoke_begin(struct session *session, const struct request *request)
{
	struct node *node = request->node;
	struct publication *publication = NULL;
	json_t *refusal = check_revoking(request, &publication);

	if (refusal) {
		session_answer(node, session, refusal, -1);
		return;
	}
	double seconds = json_number_value(json_object_get(request->object, "deadline"));
	session->state = SESSION_REVOKING;
	session->may_kill = json_is_true(json_object_get(request->object, "kill"));
	session->step = STEP_ASKED;
	session->holders = count_readers(node, publication);
	session->deadline_ns = vg_clock_monotonic_ns() + (uint64_t)(seconds * 1e9);
	BROKER_STEP("about to ask back");
	publication->revoker = session;
	publication->refuses = true;
	if (publication->page) {
		publication->page->deadline_ns = session->deadline_ns;
		publication->page->asked = publication->newest;
	}
	for (struct edition *edition = publication->editions; edition; edition = edition->next) {
		edition_notify_readers(node, edition, VG_WIRE_ASKED_BACK, session->deadline_ns);
		if (edition->publisher && edition->publisher->state == SESSION_PUBLISHED)
			edition_notify(edition->publisher, VG_WIRE_ASKED_BACK, edition->generation,
				       session->deadline_ns);
	}
	BROKER_STEP("asked back");
	revoke_check(node, publication);
}
