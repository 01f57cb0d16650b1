/*
 * tls_error.c: what went wrong between two sides of TLS, for people.
 *
 * OpenSSL says "certificate verify failed"; the person who reads it needs to
 * know whose certificate, what is wrong with it and what to change.  A wrong
 * certificate is described while it is looked at, because it is gone when the
 * handshake has failed.
 *
 * What one side holds against the other is LEAT_EAUTH and final.  What may be
 * weather (an end without a reason) stays LEAT_ECONN, whatever it looks like.
 */
#include "base/mem.h"
#include "redis/tls_inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

enum { NAMES = 100 /* of a certificate that are shown, in bytes */ };

/* ---- the certificate of the server ------------------------------------ */

/* The most telling part of a name: CN=, or else all of it. */
static void show_name(const X509_NAME *name, char *out, size_t room)
{
    char text[256] = "";
    int n = name ? X509_NAME_get_text_by_NID((X509_NAME *)name, NID_commonName,
                                             text, sizeof text)
                 : -1;
    if (n <= 0 && name)
        (void)X509_NAME_oneline(name, text, sizeof text);
    leat__escape(out, room, text, strlen(text));
}

static void show_time(const ASN1_TIME *time, char *out, size_t room)
{
    struct tm tm;
    if (!time || ASN1_TIME_to_tm(time, &tm) != 1)
        snprintf(out, room, "a date that cannot be read");
    else
        snprintf(out, room, "%04d-%02d-%02d %02d:%02d UTC", tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min);
}

static void show_alternative(const GENERAL_NAME *g, char *out, size_t room)
{
    char text[INET6_ADDRSTRLEN];
    *out = '\0';
    if (g->type == GEN_DNS) {
        leat__escape(out, room, ASN1_STRING_get0_data(g->d.dNSName),
                     (size_t)ASN1_STRING_length(g->d.dNSName));
    } else if (g->type == GEN_IPADD) {
        int family = ASN1_STRING_length(g->d.iPAddress) == 4 ? AF_INET
                                                             : AF_INET6;
        if (inet_ntop(family, ASN1_STRING_get0_data(g->d.iPAddress), text,
                      sizeof text))
            snprintf(out, room, "%s", text);
    }
}

/* Names and addresses the certificate is good for; the rest is cut. */
static void show_names(X509 *cert, char out[NAMES])
{
    GENERAL_NAMES *all = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL,
                                          NULL);
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
        char one[80];
        show_alternative(sk_GENERAL_NAME_value(all, i), one, sizeof one);
        size_t need = strlen(one) + (used ? 2 : 0);
        if (!one[0])
            continue;
        if (used + need + sizeof ", ..." > NAMES) {
            used += (size_t)snprintf(out + used, NAMES - used, ", ...");
            break;
        }
        used += (size_t)snprintf(out + used, NAMES - used, "%s%s",
                                 used ? ", " : "", one);
    }
    GENERAL_NAMES_free(all);
    if (used == 0)
        show_name(X509_get_subject_name(cert), out, NAMES);
}

/* Whose: the server's own or, further up, an authority's. */
static void show_whose(X509 *cert, int depth, char *out, size_t room)
{
    char name[64];
    show_name(X509_get_subject_name(cert), name, sizeof name);
    if (depth == 0)
        snprintf(out, room, "the server's certificate");
    else
        snprintf(out, room, "the authority's certificate '%s'", name);
}

static void judge_date(leat__tls_link *l, X509 *cert, int depth, bool late)
{
    char whose[100], date[40];
    show_whose(cert, depth, whose, sizeof whose);
    show_time(late ? X509_get0_notAfter(cert) : X509_get0_notBefore(cert), date,
              sizeof date);
    if (late)
        leat__fail(&l->why, LEAT_EAUTH,
                   "%s: %s expired on %s, renew it, or set this machine's "
                   "clock if it is wrong",
                   l->where, whose, date);
    else
        leat__fail(&l->why, LEAT_EAUTH,
                   "%s: %s is valid only from %s, wait, or set this machine's "
                   "clock if it is wrong",
                   l->where, whose, date);
}

static void judge_name(leat__tls_link *l, X509 *cert)
{
    char names[NAMES];
    show_names(cert, names);
    leat__fail(&l->why, LEAT_EAUTH,
               "%s: the server's certificate is not for '%.80s' but for %s; "
               "connect by one of these, or have one made for that name",
               l->where, l->name, names);
}

static void judge_issuer(leat__tls_link *l, X509 *cert)
{
    char issuer[80];
    show_name(X509_get_issuer_name(cert), issuer, sizeof issuer);
    leat__fail(&l->why, LEAT_EAUTH,
               "%s: the server's certificate is signed by '%s', which is not "
               "trusted here, name its authority with cafile",
               l->where, issuer);
}

static void judge_other(leat__tls_link *l, X509 *cert, int depth, int error)
{
    char whose[100];
    show_whose(cert, depth, whose, sizeof whose);
    leat__fail(&l->why, LEAT_EAUTH, "%s: %s is not good: %s", l->where, whose,
               X509_verify_cert_error_string(error));
}

void leat__tls_judge(leat__tls_link *l, X509_STORE_CTX *chain)
{
    int error = X509_STORE_CTX_get_error(chain);
    int depth = X509_STORE_CTX_get_error_depth(chain);
    X509 *cert = X509_STORE_CTX_get_current_cert(chain);
    if (!cert)
        return;
    l->judged = true;
    switch (error) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        leat__fail(&l->why, LEAT_EAUTH,
                   "%s: the server's certificate is signed by itself and not "
                   "trusted here, name it with cafile if it is the right one",
                   l->where);
        return;
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        judge_issuer(l, cert);
        return;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        judge_date(l, cert, depth, error == X509_V_ERR_CERT_HAS_EXPIRED);
        return;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        judge_name(l, cert);
        return;
    default:
        judge_other(l, cert, depth, error);
    }
}

/* ---- what ended it ---------------------------------------------------- */

static const char needs_cert[] =
    "the server asks for a certificate of ours, name one with cert and key";

static const struct {
    int reason;
    bool shaking; /* means this only before the handshake is done */
    leat_code code;
    const char *text;
} reasons[] = {
    { SSL_R_WRONG_VERSION_NUMBER, true, LEAT_EPROTO,
      "the server does not speak TLS here, use its TLS port, or redis://" },
    { SSL_R_UNSUPPORTED_PROTOCOL, true, LEAT_EPROTO,
      "the server does not speak TLS 1.2 or 1.3, update or configure it "
      "(tls-protocols)" },
    { SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, true, LEAT_EPROTO,
      "the server does not speak TLS 1.2 or 1.3, update or configure it "
      "(tls-protocols)" },
    { SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, true, LEAT_EPROTO,
      "the server refuses the handshake: no cipher or signature that both "
      "allow" },
    { SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, false, LEAT_EAUTH, needs_cert },
    { SSL_R_TLSV1_ALERT_UNKNOWN_CA, false, LEAT_EAUTH,
      "the server does not trust who signed our certificate, use another or "
      "set its tls-ca-cert-file" },
    { SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, false, LEAT_EAUTH,
      "the server says that our certificate has expired, renew it" },
    { SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, false, LEAT_EAUTH,
      "the server says that our certificate was revoked, use another" },
    { SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, false, LEAT_EAUTH,
      "the server does not accept our certificate, use another" },
    { SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, false, LEAT_EAUTH,
      "the server does not accept our certificate, use another" },
    { SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, false, LEAT_EAUTH,
      "the server does not accept our certificate for clients, use another" },
    { SSL_R_TLSV1_ALERT_ACCESS_DENIED, false, LEAT_EAUTH,
      "the server denies us access" },
    { SSL_R_TLSV1_UNRECOGNIZED_NAME, true, LEAT_EAUTH,
      "the server does not know the name it is called by, use another" },
};

/* The server's word that ended it, where it had asked for a certificate. */
static bool is_refusal(int reason)
{
    return reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE ||
           reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
           reason == SSL_R_SSLV3_ALERT_NO_CERTIFICATE ||
           reason == SSL_R_TLSV1_ALERT_ACCESS_DENIED;
}

static void explain_reason(leat__tls_link *l, int reason)
{
    const char *text = ERR_reason_error_string(ERR_peek_error());
    if (l->asked && is_refusal(reason)) {
        leat__fail(&l->why, LEAT_EAUTH, "%s: %s", l->where, needs_cert);
        return;
    }
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].reason == reason && !(reasons[i].shaking && l->shaken)) {
            leat__fail_retriable(&l->why, reasons[i].code, false, "%s: %s",
                                 l->where, reasons[i].text);
            return;
        }
    leat__fail(&l->why, l->shaken ? LEAT_ECONN : LEAT_EPROTO,
               "%s: TLS is broken: %s", l->where,
               text ? text : "OpenSSL gives no reason");
}

void leat__tls_explain(leat__tls_link *l)
{
    unsigned long e = ERR_peek_error();
    l->t.why = &l->why;
    if (l->judged)
        return;
    if (e == 0 || ERR_GET_REASON(e) == ERR_R_MALLOC_FAILURE)
        leat__fail(&l->why, LEAT_ENOMEM, "%s: no memory for TLS", l->where);
    else
        explain_reason(l, ERR_GET_REASON(e));
}

void leat__tls_explain_end(leat__tls_link *l, int sys)
{
    const char *advice = "is it a TLS port?";
    if (l->shaken && (l->spoken || !l->asked))
        return; /* errno says it all */
    if (l->asked)
        advice =
            "it asked for a certificate of ours, name one with cert and key";
    l->t.why = &l->why;
    if (sys)
        leat__fail_errno(&l->why, LEAT_ECONN, sys,
                         "%s: lost during the TLS handshake (%s)", l->where,
                         advice);
    else
        leat__fail(&l->why, LEAT_ECONN,
                   "%s: the server closed it during the TLS handshake, %s",
                   l->where, advice);
}
