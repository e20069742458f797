#pragma once

#include <gtest/gtest.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <unistd.h>

namespace godwit::test {

/// A folder of PEM files that are there as long as this is.
class pem_folder {
public:
  explicit pem_folder(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() /
                ("godwit-tls-" + std::to_string(::getpid()) + "-" + name + "-" + std::to_string(++made_))) {
    std::filesystem::create_directories(folder_);
  }
  ~pem_folder() { std::filesystem::remove_all(folder_); }
  pem_folder(const pem_folder&) = delete;
  pem_folder& operator=(const pem_folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }

private:
  static inline int made_ = 0;
  std::filesystem::path folder_;
};

using key_ptr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using certificate_ptr = std::unique_ptr<X509, decltype(&X509_free)>;

inline key_ptr make_key() { return {EVP_EC_gen("P-256"), EVP_PKEY_free}; }

/// For an hour, from a minute ago, or for one that begins in `from_s` seconds. `names` as in
/// "DNS:localhost,IP:127.0.0.1", or empty; without an issuer it signs itself.
inline certificate_ptr make_certificate(const std::string& subject, EVP_PKEY* key, const std::string& names = {},
                                        X509* issuer = nullptr, EVP_PKEY* issuer_key = nullptr, long from_s = -60) {
  static long serial = 0;
  certificate_ptr out{X509_new(), X509_free};
  X509_set_version(out.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(out.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(out.get()), from_s);
  X509_gmtime_adj(X509_getm_notAfter(out.get()), from_s + 3660);
  X509_set_pubkey(out.get(), key);
  auto* called = X509_get_subject_name(out.get());
  X509_NAME_add_entry_by_txt(called, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(subject.c_str()), -1,
                             -1, 0);
  X509_set_issuer_name(out.get(), issuer != nullptr ? X509_get_subject_name(issuer) : called);
  const auto extend = [&](int what, const std::string& value) {
    auto* extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
    EXPECT_NE(extension, nullptr) << value;
    X509_add_ext(out.get(), extension, -1);
    X509_EXTENSION_free(extension);
  };
  if (issuer == nullptr) extend(NID_basic_constraints, "critical,CA:TRUE");
  if (!names.empty()) extend(NID_subject_alt_name, names);
  EXPECT_NE(X509_sign(out.get(), issuer_key != nullptr ? issuer_key : key, EVP_sha256()), 0);
  return out;
}

inline void write_pem(const std::string& file, X509* certificate) {
  auto* out = std::fopen(file.c_str(), "w");
  ASSERT_TRUE(out != nullptr && PEM_write_X509(out, certificate) == 1);
  std::fclose(out);
}
inline void write_pem(const std::string& file, EVP_PKEY* key) {
  auto* out = std::fopen(file.c_str(), "w");
  ASSERT_TRUE(out != nullptr && PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  std::fclose(out);
}

/// A certificate that signs itself, and its key.
class self_signed {
public:
  /// `names` as in "DNS:localhost,IP:127.0.0.1", or empty.
  explicit self_signed(const std::string& name, const std::string& names = {}) : folder_(name) { write(name, names); }

  [[nodiscard]] std::string certificate() const { return folder_.file("tls.crt"); }
  [[nodiscard]] std::string key() const { return folder_.file("tls.key"); }

  /// Another certificate and key, in the same files.
  void write(const std::string& name, const std::string& names = {}) const {
    const auto key = make_key();
    write_pem(certificate(), make_certificate(name, key.get(), names).get());
    write_pem(this->key(), key.get());
  }

private:
  pem_folder folder_;
};

/// Signs certificates of others.
class authority {
public:
  explicit authority(const std::string& name)
      : folder_(name), key_(make_key()), certificate_(make_certificate(name, key_.get())) {
    write_pem(file(), certificate_.get());
  }

  [[nodiscard]] std::string file() const { return folder_.file("ca.crt"); }
  [[nodiscard]] std::string certificate_of(const std::string& subject) const { return folder_.file(subject + ".crt"); }
  [[nodiscard]] std::string key_of(const std::string& subject) const { return folder_.file(subject + ".key"); }

  /// Writes both files of `subject`, or writes them anew. `names` as in "DNS:localhost,IP:127.0.0.1".
  void sign(const std::string& subject, const std::string& names, long from_s = -60) const {
    const auto key = make_key();
    write_pem(certificate_of(subject),
              make_certificate(subject, key.get(), names, certificate_.get(), key_.get(), from_s).get());
    write_pem(key_of(subject), key.get());
  }

private:
  pem_folder folder_;
  key_ptr key_;
  certificate_ptr certificate_;
};

} // namespace godwit::test
